"""What the division of tiles costs."""

from tilelang_ascend.analysis.tiles.split_axis import _Groups


def test_groups_compare_few_nodes():
    """Comparing variables makes an expression each time: nodes on the way to the one that stands for a group are not compared."""
    compared = []

    class Node:
        def __init__(self, number):
            self.number = number

        def __hash__(self):
            return hash(self.number)

        def __eq__(self, other):
            compared.append(self)
            return self.number == other.number

    groups = _Groups()
    for n in range(200):
        groups.join(Node(n), Node(n + 1))
    assert len({id(groups.find(Node(n))) for n in range(201)}) == 1
    assert len(compared) < 10 * 200
