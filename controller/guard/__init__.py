"""The one writer: journal of originals, compare and set, read back, restore."""
