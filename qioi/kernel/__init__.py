"""What the kernel tells of control groups: where they are, their small files, their CPU time, their threads."""
