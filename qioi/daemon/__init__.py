"""The life of the daemon: start, the loop (observe, decide, act, report), reload, end."""
