#include "cuda/run_gpu.h"

namespace moetwin {

RunResult run_gpu(const Case& c, const RunOptions& options) {
  GpuSession session;
  return session.run(c, options);
}

}  // namespace moetwin
