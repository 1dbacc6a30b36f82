"""The papers' experiments, declared in files and run for real on the lab."""
