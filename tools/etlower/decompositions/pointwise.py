"""Arithmetic on elements, products with factors, and normalization that updates its statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._decomp import global_decomposition_table
from torch._ops import OpOverload
from torch.fx import Node

_ATEN = torch.ops.aten
_Tensor = torch.Tensor


def _floating(x: _Tensor) -> _Tensor:
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


def _floating_type(x: _Tensor, y: _Tensor) -> torch.dtype:
    dtype = torch.result_type(x, y)
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def _of_number(op: Callable[..., Any]) -> Callable[..., Any]:
    """An operator on a number and a tensor."""

    def function(number: float, x: _Tensor) -> _Tensor:
        return op(torch.full((), number, dtype=torch.result_type(number, x)), x)

    return function


def _xlogy_by_number(x: _Tensor, number: float) -> _Tensor:
    return torch.xlogy(x, torch.full((), number, dtype=torch.result_type(x, number)))


def _with_factors(bias: _Tensor, product: _Tensor, beta: Any, alpha: Any) -> _Tensor:
    """beta * bias + alpha * product; what is multiplied by zero counts for nothing."""
    if not product.is_floating_point() and not isinstance(beta + alpha, int):
        return NotImplemented
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return (bias if beta == 1 else bias * beta) + scaled


def _addmv(bias: _Tensor, x: _Tensor, y: _Tensor, *, beta: Any = 1, alpha: Any = 1) -> _Tensor:
    return _with_factors(bias, x @ y, beta, alpha)


def _addbmm(bias: _Tensor, x: _Tensor, y: _Tensor, *, beta: Any = 1, alpha: Any = 1) -> _Tensor:
    return _with_factors(bias, torch.sum(x @ y, 0, dtype=x.dtype), beta, alpha)


def _signbit(x: _Tensor) -> _Tensor:
    """Also of zeros, whose reciprocals are infinite; not of NaN."""
    if not x.is_floating_point():
        return x < 0
    return (x < 0) | ((x == 0) & (torch.reciprocal(x) < 0))


def _copysign(x: _Tensor, sign: _Tensor) -> _Tensor:
    size = _floating(x).abs().to(_floating_type(x, sign))
    return torch.where(_signbit(sign), -size, size)


def _copysign_number(x: _Tensor, sign: float) -> _Tensor:
    size = _floating(x).abs()
    return -size if math.copysign(1.0, sign) < 0 else size


def _fmax(x: _Tensor, y: _Tensor) -> _Tensor:
    return _without_nan(x, y, torch.maximum(x, y))


def _fmin(x: _Tensor, y: _Tensor) -> _Tensor:
    return _without_nan(x, y, torch.minimum(x, y))


def _without_nan(x: _Tensor, y: _Tensor, both: _Tensor) -> _Tensor:
    if not both.is_floating_point():
        return both
    x, y = x.to(both.dtype), y.to(both.dtype)
    return torch.where(torch.isnan(x), y, torch.where(torch.isnan(y), x, both))


def _hypot(x: _Tensor, y: _Tensor) -> _Tensor:
    """Without an overflow in between."""
    given, dtype = torch.result_type(x, y), _floating_type(x, y)
    x, y = x.to(dtype).abs(), y.to(dtype).abs()
    large, small = torch.maximum(x, y), torch.minimum(x, y)
    ratio = torch.where((large == 0) | torch.isinf(large), 0.0, small / large)
    # Some delegates' maximum of a NaN and a number is the number.
    size = torch.where(torch.isnan(x) | torch.isnan(y), torch.nan, large)
    size = size * torch.sqrt(1 + ratio * ratio)
    size = torch.where(torch.isinf(x) | torch.isinf(y), math.inf, size)
    return size.to(given)


# Coefficients of two polynomials, whose quotient times exp(-x * x) is erfc from 0.5 to 4, and as
# near as 32 bits show beyond (Cody, Rational Chebyshev approximations for the error function).
_ERFC_ABOVE = (
    *(2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 66.1191906371416295),
    *(298.635138197400131, 881.952221241769090, 1712.04761263407058, 2051.07837782607147),
    1230.33935479799725,
)
_ERFC_BELOW = (
    *(1.0, 15.7449261107098347, 117.693950891312499, 537.181101862009858, 1621.38957456669019),
    *(3290.79923573345963, 4362.61909014324716, 3439.36767414372164, 1230.33935480374942),
)


def _erfc(x: _Tensor) -> _Tensor:
    """1 - erf(x), which leaves no digits where it is small: there a quotient of polynomials."""
    wide = _floating(x)
    wide = wide.float() if wide.dtype in (torch.float16, torch.bfloat16) else wide
    size = torch.clamp(wide, 0.5, 30.0)
    small = _polynomial(size, _ERFC_ABOVE) / _polynomial(size, _ERFC_BELOW)
    result = torch.where(wide > 0.5, torch.exp(-size * size) * small, 1 - torch.erf(wide))
    return result.to(_floating(x).dtype)


def _polynomial(x: _Tensor, coefficients: Sequence[float]) -> _Tensor:
    """Its coefficients begin with that of the highest power."""
    value = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * x + coefficient
    return value


def _single_number(number: float, *, dtype: Any = None, device: Any = None) -> _Tensor:
    return torch.full((), number, dtype=dtype)


def _converted(x: _Tensor, dtype: torch.dtype) -> _Tensor:
    return x.to(dtype)


def _exp2(x: _Tensor) -> _Tensor:
    return torch.pow(2.0, _floating(x))


def _ldexp(x: _Tensor, exponent: _Tensor) -> _Tensor:
    return x * torch.pow(2.0, _floating(exponent))


def _angle(x: _Tensor) -> _Tensor:
    if x.is_complex():
        return NotImplemented
    if not x.is_floating_point():
        return torch.where(x < 0, math.pi, 0.0)
    return torch.where(torch.isnan(x), x, torch.where(x < 0, math.pi, 0.0))


def _round_decimals(x: _Tensor, *, decimals: int) -> _Tensor:
    """As torch's kernel does it, whose factor is a number of the same type."""
    if decimals == 0 or not x.is_floating_point():
        return torch.round(x) if decimals == 0 else NotImplemented
    factor = 10.0 ** abs(decimals)
    return torch.round(x * factor) / factor if decimals > 0 else torch.round(x / factor) * factor


def _dist(x: _Tensor, y: _Tensor, p: float = 2) -> _Tensor:
    return torch.linalg.vector_norm(x - y, p)


# Coefficients of Chebyshev polynomials for |x| <= 8 and above (Cephes, i0.c).
_I0_LOW = (
    *(-4.41534164647933937950e-18, 3.33079451882223809783e-17, -2.43127984654795469359e-16),
    *(1.71539128555513303061e-15, -1.16853328779934516808e-14, 7.67618549860493561688e-14),
    *(-4.85644678311192946090e-13, 2.95505266312963983461e-12, -1.72682629144155570723e-11),
    *(9.67580903537323691224e-11, -5.18979560163526290666e-10, 2.65982372468238665035e-9),
    *(-1.30002500998624804212e-8, 6.04699502254191894932e-8, -2.67079385394061173391e-7),
    *(1.11738753912010371815e-6, -4.41673835845875056359e-6, 1.64484480707288970893e-5),
    *(-5.75419501008210370398e-5, 1.88502885095841655729e-4, -5.76375574538582365885e-4),
    *(1.63947561694133579842e-3, -4.32430999505057594430e-3, 1.05464603945949983183e-2),
    *(-2.37374148058994688156e-2, 4.93052842396707084878e-2, -9.49010970480476444210e-2),
    *(1.71620901522208775349e-1, -3.04682672343198398683e-1, 6.76795274409476084995e-1),
)
_I0_HIGH = (
    *(-7.23318048787475395456e-18, -4.83050448594418207126e-18, 4.46562142029675999901e-17),
    *(3.46122286769746109310e-17, -2.82762398051658348494e-16, -3.42548561967721913462e-16),
    *(1.77256013305652638360e-15, 3.81168066935262242075e-15, -9.55484669882830764870e-15),
    *(-4.15056934728722208663e-14, 1.54008621752140982691e-14, 3.85277838274214270114e-13),
    *(7.18012445138366623367e-13, -1.79417853150680611778e-12, -1.32158118404477131188e-11),
    *(-3.14991652796324136454e-11, 1.18891471078464383424e-11, 4.94060238822496958910e-10),
    *(3.39623202570838634515e-9, 2.26666899049817806459e-8, 2.04891858946906374183e-7),
    *(2.89137052083475648297e-6, 6.88975834691682398426e-5, 3.36911647825569408990e-3),
    *(8.04490411014108831608e-1,),
)


def _i0(x: _Tensor) -> _Tensor:
    """The modified Bessel function of order 0, as torch and Cephes compute it."""
    size = _floating(x).abs()
    low = _chebyshev(size / 2 - 2, _I0_LOW)
    safe = torch.clamp(size, min=8.0)
    high = _chebyshev(32 / safe - 2, _I0_HIGH) / torch.sqrt(safe)
    return torch.exp(size) * torch.where(size <= 8, low, high)


def _chebyshev(x: _Tensor, coefficients: tuple[float, ...]) -> _Tensor:
    first, second, third = x * 0 + coefficients[0], x * 0, x * 0
    for coefficient in coefficients[1:]:
        third, second = second, first
        first = x * second - third + coefficient
    return (first - third) * 0.5


def _trilinear(
    x: _Tensor,
    y: _Tensor,
    z: _Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> _Tensor:
    """The product of three tensors, each with dimensions of size 1 inserted, summed."""
    expanded = []
    for tensor, dims in ((x, expand1), (y, expand2), (z, expand3)):
        for dim in dims:
            tensor = tensor.unsqueeze(dim)
        expanded.append(tensor)
    product = expanded[0] * expanded[1] * expanded[2]
    return torch.sum(product, sumdim, dtype=product.dtype) if sumdim else product


def _rrelu(
    x: _Tensor,
    noise: _Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> tuple[_Tensor, _Tensor]:
    """Outside of training the slope is the mean of its bounds."""
    if training:
        return NotImplemented
    return torch.where(x > 0, x, x * ((lower + upper) / 2)), noise.clone()


def _left_shift(x: _Tensor, count: _Tensor | int) -> _Tensor:
    """`x << count`, which has another operator than torch.bitwise_left_shift."""
    return NotImplemented if x.is_floating_point() else torch.bitwise_left_shift(x, count)


def _right_shift(x: _Tensor, count: _Tensor | int) -> _Tensor:
    return NotImplemented if x.is_floating_point() else torch.bitwise_right_shift(x, count)


def is_sign_of_floats(node: Node) -> bool:
    """Tells whether a sign is one of floats, of whose NaN the kernel makes NaN, and eager 0."""
    return bool(node.meta["val"].dtype.is_floating_point)


def _sign(x: _Tensor) -> _Tensor:
    if not x.is_floating_point():
        return NotImplemented
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


def is_unsummed(node: Node) -> bool:
    """Tells whether a sum is one of 64-bit floats, or of a tensor without dimensions."""
    [source, *_] = node.all_input_nodes
    return bool(node.meta["val"].dtype == torch.float64 or source.meta["val"].dim() == 0)


def _sum(
    x: _Tensor, dim: Sequence[int] | None, keepdim: bool = False, *, dtype: Any = None
) -> _Tensor:
    """A mean's multiple: the kernel adds up doubles in 32 bits. A number is its own sum.

    With a tensor without dimensions the kernel ends the process.
    """
    dtype = dtype or (x.dtype if x.is_floating_point() else torch.int64)
    if x.dim() == 0:
        return x.to(dtype).clone()
    sizes = [x.shape[d] for d in (dim or range(x.dim()))]
    if dtype != torch.float64 or 0 in sizes:
        return NotImplemented
    return torch.mean(x, dim, keepdim, dtype=dtype) * math.prod(sizes)


def has_few(node: Node) -> bool:
    """Tells whether a variance may be of no more elements than its correction: it is NaN then.

    The kernel that computes mean and variance makes NaN of the mean, too.
    """
    x = node.all_input_nodes[0].meta["val"]
    dims = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    sizes = [x.shape[dim] for dim in dims or range(x.dim())] if x.dim() else []
    correction = node.kwargs.get("correction")
    known = all(isinstance(size, int) for size in sizes)
    return not known or math.prod(sizes) <= (1 if correction is None else correction)


def _var_mean(
    x: _Tensor, dim: Sequence[int] | None = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[_Tensor, _Tensor]:
    sizes = [x.shape[each] for each in dim or range(x.dim())] if x.dim() else []
    divisor = math.prod(sizes) - (1 if correction is None else correction)
    if all(isinstance(size, int) for size in sizes) and divisor <= 0 and math.prod(sizes) > 1:
        # Infinite, unless all elements are the same.
        variance = torch.var(x, dim, correction=0, keepdim=keepdim) / 0.0
    else:
        variance = torch.var(x, dim, correction=correction, keepdim=keepdim)
    return variance, torch.mean(x, dim, keepdim)


# Functional forms, which upstream's table lacks and torch's own has.
_TORCHS = (
    _ATEN._native_batch_norm_legit_functional.default,
    _ATEN._batch_norm_with_update_functional.default,
)

TABLE: Mapping[OpOverload, Callable[..., Any]] = {
    _ATEN.addmv.default: _addmv,
    _ATEN.addbmm.default: _addbmm,
    _ATEN.signbit.default: _signbit,
    _ATEN.copysign.Tensor: _copysign,
    _ATEN.copysign.Scalar: _copysign_number,
    _ATEN.fmax.default: _fmax,
    _ATEN.fmin.default: _fmin,
    _ATEN.hypot.default: _hypot,
    _ATEN.erfc.default: _erfc,
    _ATEN.exp2.default: _exp2,
    _ATEN.ldexp.Tensor: _ldexp,
    _ATEN.angle.default: _angle,
    _ATEN.round.decimals: _round_decimals,
    _ATEN.dist.default: _dist,
    _ATEN.i0.default: _i0,
    _ATEN.sign.default: _sign,
    _ATEN.sum.dim_IntList: _sum,
    _ATEN.var_mean.correction: _var_mean,
    _ATEN.rrelu_with_noise_functional.default: _rrelu,
    _ATEN.xlogy.Scalar_Other: _xlogy_by_number,
    _ATEN.xlogy.Scalar_Self: _of_number(torch.xlogy),
    _ATEN.bitwise_and.Scalar_Tensor: _of_number(torch.bitwise_and),
    _ATEN.bitwise_or.Scalar_Tensor: _of_number(torch.bitwise_or),
    _ATEN.bitwise_xor.Scalar_Tensor: _of_number(torch.bitwise_xor),
    _ATEN.bitwise_left_shift.Scalar_Tensor: _of_number(torch.bitwise_left_shift),
    _ATEN.bitwise_right_shift.Scalar_Tensor: _of_number(torch.bitwise_right_shift),
    _ATEN._trilinear.default: _trilinear,
    torch.ops.prims.convert_element_type.default: _converted,
    torch.ops.prims.scalar_tensor.default: _single_number,
    _ATEN.__lshift__.Scalar: _left_shift,
    _ATEN.__lshift__.Tensor: _left_shift,
    _ATEN.__rshift__.Scalar: _right_shift,
    _ATEN.__rshift__.Tensor: _right_shift,
    **{op: global_decomposition_table["post_autograd"][op] for op in _TORCHS},
}
