"""Running kernels on a local NPU: CANN (`cann`), its compiler (`build`), its driver (`acl`), a board (`board`) and the executor (`executor`).

What is known of CANN's interfaces from public documentation only, and was never run on a board, is marked `assumed` where it stands.
"""
