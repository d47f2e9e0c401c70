#include "app/backends.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <omp.h>

#include <chrono>
#include <ctime>
#include <fstream>

#include "common/check.h"
#include "cpu_sim/simulate.h"
#include "fuzz/plants.h"
#include "model/naive.h"

#ifdef MOETWIN_HAVE_CUDA
#include "cuda/device_info.h"
#include "cuda/run_gpu.h"
#endif

namespace moetwin {
namespace {

RunResult run_sim(const Case& c, const RunOptions& options) { return simulate_case(c, options); }

RunResult run_naive_launches(const Case& c, const RunOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  RunResult result;
  result.threads =
      options.threads == 0 ? static_cast<uint32_t>(omp_get_max_threads()) : options.threads;
  WeightCache cache(options.weights);
  for (size_t launch = 0; launch < c.launches.size(); ++launch)
    result.launches.push_back(run_naive(make_problem(c, launch, cache), {options.threads}));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

#ifdef MOETWIN_HAVE_CUDA
RunResult run_card(const Case& c, const RunOptions& options) {
  try {
    return run_gpu(c, options);
  } catch (const NoCudaDevice& error) {
    throw NoDeviceError(error.what());
  }
}

GoldenMachine describe_card() {
  try {
    const DeviceInfo device = device_info();
    GoldenMachine machine;
    machine.card = device.name;
    machine.driver = device.driver.empty() ? "unknown" : device.driver;
    return machine;
  } catch (const NoCudaDevice& error) {
    throw NoDeviceError(error.what());
  }
}
#else
constexpr const char* kNoCuda = "no CUDA device: this moetwin was built without CUDA";

RunResult run_card(const Case&, const RunOptions&) { throw NoDeviceError(kNoCuda); }
GoldenMachine describe_card() { throw NoDeviceError(kNoCuda); }
#endif

constexpr Backend kBackends[] = {
    {"sim", true, false, run_sim},
    {"naive", false, false, run_naive_launches},
    {"gpu", false, true, run_card},
};

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  constexpr std::string_view kKey = "model name";
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.compare(0, kKey.size(), kKey) == 0 && colon != std::string::npos)
      return line.substr(colon + 2);
  }
  return "unknown processor";
}

}  // namespace

const Backend& find_backend(const std::string& option, const std::string& name) {
  std::string known;
  for (const Backend& backend : kBackends) {
    if (name == backend.name) return backend;
    known += (known.empty() ? "" : ", ") + std::string(backend.name);
  }
  throw InputError(fmt::format("{}: '{}' is not one of {}", option, name, known));
}

void check_options(const Backend& backend, const RunOptions& options) {
  if (backend.simulated) return;
  const auto refuse = [&](const char* option, const char* why) {
    throw InputError(
        fmt::format("{}: backend '{}' {}; --backend sim does", option, backend.name, why));
  };
  if (options.check) refuse("--check", "has no checker");
  if (!options.math) refuse("--no-math", "cannot leave arithmetic out");
  if (!options.trace_path.empty() && !backend.on_card) refuse("--trace", "has no timeline");
}

GoldenMachine describe_machine(const Backend& backend) {
  GoldenMachine machine;
  if (backend.on_card)
    machine = describe_card();
  else
    machine.cpu = processor_name();
  machine.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  machine.version = MOETWIN_VERSION;
  return machine;
}

}  // namespace moetwin
