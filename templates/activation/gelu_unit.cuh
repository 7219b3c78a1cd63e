/*
 * The argument of the tanh in the tanh form of gelu (gelu_argument.cuh) for kernels, which scale their scores anyway: with y = c x, c^3 = k1, it is
 * u = y (y^2 + k0/c), whose cube has no factor any more, and x u' = y (3 y^2 + k0/c).
 */
#ifndef GDPA_ACTIVATION_GELU_UNIT_CUH
#define GDPA_ACTIVATION_GELU_UNIT_CUH

constexpr float kGeluUnit = 0.3292034911525734f; // c
constexpr float kGeluTerm = 2.423681954311584f;  // k0/c

#endif
