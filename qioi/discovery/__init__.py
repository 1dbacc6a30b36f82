"""Where components come from: a fixed list, or a container engine that is watched."""
