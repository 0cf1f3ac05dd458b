"""Values of a nest as a graph, in operations the vector unit has."""
