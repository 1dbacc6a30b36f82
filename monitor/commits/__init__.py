"""From log lines to commits, and from commits to throughput per channel."""
