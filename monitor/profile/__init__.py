"""What perf records of the scheduler."""
