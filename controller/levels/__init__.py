"""Where in the tree of control groups a component meets foreign work, and what is wanted there."""
