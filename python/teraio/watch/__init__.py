"""What shows a run while it goes on and when it has ended."""
