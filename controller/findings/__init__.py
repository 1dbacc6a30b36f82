"""What a channel waits for: the CPU, a disk, a quota, itself; and whether slices help it."""
