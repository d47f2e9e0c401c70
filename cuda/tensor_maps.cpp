#include "cuda/tensor_maps.h"

#include <string>

#include "cuda/cuda_error.h"
#include "cuda/driver_function.h"

namespace moetwin {
namespace {

/// A row-major matrix of bytes and the box that is moved at a time.
struct Matrix {
  uint64_t address;
  uint64_t rows;
  uint64_t columns;
  uint32_t box_rows;
  uint32_t box_columns;
  CUtensorMapSwizzle swizzle;
};

CUtensorMap encode(const Matrix& m) {
  static const auto encode_tiled =
      driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  CUtensorMap map{};
  const cuuint64_t sizes[2] = {m.columns, m.rows};
  const cuuint64_t strides[1] = {m.columns};
  const cuuint32_t box[2] = {m.box_columns, m.box_rows};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult result =
      encode_tiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, reinterpret_cast<void*>(m.address),
                   sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, m.swizzle,
                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw CudaError("CUDA, making a tensor map: error " + std::to_string(result));
  return map;
}

CUtensorMap load_of(uint64_t address, uint64_t rows, uint64_t columns, uint32_t box_rows) {
  return encode({address, rows, columns, box_rows, kBlockK, CU_TENSOR_MAP_SWIZZLE_128B});
}

CUtensorMap store_of(uint64_t address, uint64_t rows, uint64_t columns) {
  return encode({address, rows, columns, kMathRows, kLinear1ScaleGroup, CU_TENSOR_MAP_SWIZZLE_64B});
}

}  // namespace

RankMaps make_tensor_maps(const KernelArgs& args, uint64_t base, const RankWeights& weights) {
  RankMaps maps{};
  const Shape& shape = args.shape;
  const KernelPlan& plan = args.plan;
  const uint64_t experts = shape.num_local_experts();
  const uint64_t ring_rows = uint64_t{plan.ring_blocks} * plan.block_m;
  const uint64_t x = base + args.layout.offset(Region::PoolX);
  const uint64_t l1 = base + args.layout.offset(Region::Linear1);
  const uint64_t tap = base + args.layout.offset(Region::TapLinear1);
  const auto map = [&](TensorMap which) -> CUtensorMap& {
    return maps.map[static_cast<uint32_t>(which)];
  };
  for (const uint32_t rows : kBoxRows) {
    if (rows > plan.block_m) continue;
    map(load_map(Tensor::PoolX, rows)) = load_of(x, ring_rows, shape.hidden, rows);
    map(load_map(Tensor::Linear1, rows)) = load_of(l1, ring_rows, shape.intermediate, rows);
  }
  map(TensorMap::W1Load) =
      load_of(weights.w1, experts * 2 * shape.intermediate, shape.hidden, kSliceN);
  map(TensorMap::W2Load) = load_of(weights.w2, experts * shape.hidden, shape.intermediate, kSliceN);
  map(TensorMap::Linear1Store) = store_of(l1, ring_rows, shape.intermediate);
  if (plan.taps)
    map(TensorMap::TapLinear1Store) = store_of(tap, plan.max_pool_rows(), shape.intermediate);
  return maps;
}

}  // namespace moetwin
