"""Many runs by one command: each kept apart, ranked at the end, and continued where they were left."""
