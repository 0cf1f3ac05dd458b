"""From a `T.Parallel` nest to a graph, and how far its accesses reach."""
