"""What to do: control laws, policies, actuators, and the guard that restores."""
