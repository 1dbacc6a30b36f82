"""Processes in control groups of their own, as the lab and the interferers start them."""
