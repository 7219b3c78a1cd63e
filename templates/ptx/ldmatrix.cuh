/*
 * Loads of 8x8 matrices of 16-bit elements, four at a time. PTX ISA, "ldmatrix".
 *
 * Lane l gives the address of row l % 8 of matrix l / 8 (16 bytes, aligned). Register i of lane l gets the elements
 * (row l / 4, columns 2 (l % 4) and + 1) of matrix i, or of its transpose.
 */
#ifndef GDPA_PTX_LDMATRIX_CUH
#define GDPA_PTX_LDMATRIX_CUH

#include "types.cuh"

__device__ inline void ldmatrix_x4(uint32_t (&matrix)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
                 : "r"(address)
                 : "memory");
}

__device__ inline void ldmatrix_x4_trans(uint32_t (&matrix)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
                 : "r"(address)
                 : "memory");
}

#endif
