"""Following logs: files, container engines' wrappers, the journal."""
