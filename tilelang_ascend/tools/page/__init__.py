"""The page `tilelang-ascend profile` writes: data, charts, tables, HTML."""
