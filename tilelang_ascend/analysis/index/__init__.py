"""Integer expressions: linear forms, bounds, what indices of a nest reach. Knows no tiles and no program."""
