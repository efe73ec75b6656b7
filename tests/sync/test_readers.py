"""Who reads a parameter is seen in one forward pass."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainer.sync.readers import Readers


class _Own(torch.autograd.Function):
    @staticmethod
    def forward(context, x: Tensor, weight: Tensor) -> Tensor:
        return x * weight

    @staticmethod
    def backward(context, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class _Holding(nn.Module):
    """Reads a list of parameters through a function of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Module()
        self.inner.list = nn.ParameterList([nn.Parameter(torch.ones(4))])

    def forward(self, x: Tensor) -> Tensor:
        return _Own.apply(x, self.inner.list[0])


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.late, self.holding = nn.Linear(4, 4), _Holding()
        self.attention = nn.MultiheadAttention(4, 1, batch_first=True)
        self.unused = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.holding(x @ self.late.weight)
        return self.late(self.attention(x, x, x, need_weights=False)[0])


def _watched() -> tuple[_Net, Readers]:
    net = _Net()
    readers = Readers(net)
    with readers.watch():
        net(torch.ones(1, 2, 4))
    return net, readers


def test_a_weight_is_waited_for_by_all_who_read_it():
    net, readers = _watched()
    assert readers.modules_of[id(net.late.weight)] == [net.late, net]
    assert readers.modules_of[id(net.late.bias)] == [net.late]


def test_weights_of_a_layer_that_is_never_called_are_its_holders():
    net, readers = _watched()
    assert net.attention in readers.modules_of[id(net.attention.out_proj.weight)]
    assert net.holding in readers.modules_of[id(net.holding.inner.list[0])]


def test_the_order_is_that_of_the_first_read():
    net, readers = _watched()
    seen = [net.late.weight, net.holding.inner.list[0], net.attention.in_proj_weight, net.late.bias]
    places = [readers.order.index(id(parameter)) for parameter in seen]
    assert places == sorted(places)


def test_nothing_of_the_watch_is_left():
    net, _ = _watched()
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in net.modules())
