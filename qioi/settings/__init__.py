"""The configuration file: its form, its checks, and what it means."""
