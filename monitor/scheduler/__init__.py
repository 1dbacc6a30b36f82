"""Scheduling delay, CPU time, the host's load, stalls, and the onset of interference."""
