"""Everything for eyes and programs: snapshot, status, explain, top, metrics, HTTP."""
