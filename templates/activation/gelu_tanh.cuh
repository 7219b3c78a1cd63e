/*
 * f(x) = x/2 (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3), and its derivative s + x s (1 - s) 2 u', s = sigmoid(2u). Exact: the tail
 * sigmoid(-2u) = 2^P(t) uses 0.34 of the bound of activations.def with degree 4 (bf16), 0.06 with degree 5 (fp16). 6 or 7 operations and 1 special
 * function.
 */
#ifndef GDPA_ACTIVATION_GELU_TANH_CUH
#define GDPA_ACTIVATION_GELU_TANH_CUH

//@if bf16
constexpr int kTailDegree = 4;
__device__ constexpr float kTail[] = {-1.1441706418991089f, -0.48617690801620483f, -0.020868565887212753f, -0.0038312056567519903f};
//@else
constexpr int kTailDegree = 5;
__device__ constexpr float kTail[] = {-1.1499115228652954f, -0.4635879695415497f, -0.047838807106018066f,
                           0.008577263914048672f, -0.0019253160571679473f};
//@endif

#include "activation/exponential_tail.cuh"
#include "activation/gelu_argument.cuh"
#include "activation/logistic.cuh"

/* The derivative is 0 or 1 beyond it; a far x would carry the last place of the sigmoid too far. */
constexpr float kDerivativeEnd = 8.0f;

__device__ inline float activation_derivative(float x, float param)
{
    const float near = max_nan_f32(min_nan_f32(x, kDerivativeEnd), -kDerivativeEnd);
    const float s = logistic(2.0f * gelu_argument(near));
    return fma_rn_f32(2.0f * near * s * (1.0f - s), gelu_argument_slope(near * near), s);
}

#endif
