"""What can be moved: shares, EEVDF slices, cpu.idle."""
