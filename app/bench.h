// What `moetwin bench` measures, a function each: they measure, then print a screen or give JSON.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace moetwin {

/// What one benchmark found: the object of --json and its text for a screen.
struct BenchReport {
  nlohmann::ordered_json json;
  std::string text;
  std::string svg;  ///< a plot, where it has one
};

/// Operations a second of processor time of `work`, which does `operations` each time; runs for at
/// least `seconds`.
double measure_rate(const std::function<void()>& work, double operations, double seconds = 0.1);

/// The middle one of an odd number of values.
double median(std::vector<double> values);

/// The tile kernel beside Eigen's float GEMM and the plain scalar step.
BenchReport bench_tensor_core();
/// Control events of the simulator a second, without tile arithmetic.
BenchReport bench_control();
/// Generated cases a second, on the simulator and on the naive path.
BenchReport bench_cases();
/// The race checker beside the same simulation unchecked.
BenchReport bench_checker();
/// The timed schedule's prediction of launches measured on a card.
BenchReport bench_timed();
/// How time grows with threads, rows and ranks.
BenchReport bench_scaling();

}  // namespace moetwin
