"""What is happening: log sources, commit parsers, throughput windows, scheduling delay."""
