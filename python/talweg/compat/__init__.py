"""Names of other libraries that clash with better ones."""
