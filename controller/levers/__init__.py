"""The levers: shares, EEVDF slices, cpu.idle."""
