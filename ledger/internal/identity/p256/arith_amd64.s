// Empty: a package with a file of assembly may declare functions without a body.
