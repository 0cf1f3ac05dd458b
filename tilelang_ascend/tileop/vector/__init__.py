"""Element-wise nests on the vector unit: a graph of values, instructions for it, a schedule, folds over axes."""
