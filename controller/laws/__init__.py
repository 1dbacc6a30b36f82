"""Control laws, pure: a law is a value, and the clock is an argument."""
