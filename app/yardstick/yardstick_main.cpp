// A program of its own, because flags for one processor on a file that includes Eigen would break
// the one-definition rule in moetwin. Prints one line: GFLOP/s of processor time, then the
// instruction sets.
#include <cstdio>
#include <ctime>

#include "app/yardstick/eigen_gemm.h"

namespace {

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

int main() {
  constexpr double kSeconds = 0.1;
  moetwin::EigenGemm gemm;
  float keep = gemm.multiply()[0];
  const double start = processor_seconds();
  double elapsed = 0;
  double products = 0;
  while (elapsed < kSeconds) {
    keep += gemm.multiply()[0];
    products += 1;
    elapsed = processor_seconds() - start;
  }
  const volatile float sink = keep;
  (void)sink;
  std::printf("%.6f %s\n", products * moetwin::EigenGemm::kFlops / elapsed * 1e-9,
              moetwin::EigenGemm::simd());
  return 0;
}
