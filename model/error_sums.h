// How far values lie from a reference, as sums that can be added up: one class for every error that
// is reported. It knows neither tensors nor stages.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace moetwin {

/// Elements that are not finite on either side are counted and left out of everything else.
class ErrorSums {
 public:
  /// One more element; `place` is the caller's name for it.
  void add(double reference, double result, uint64_t place = 0) {
    const bool finite = std::isfinite(result);
    const bool reference_finite = std::isfinite(reference);
    if (!finite) ++non_finite_result_;
    if (!reference_finite) ++non_finite_reference_;
    if (!finite || !reference_finite) return;
    ++finite_;
    const double error = result - reference;
    error_square_ += error * error;
    reference_square_ += reference * reference;
    result_square_ += result * result;
    product_ += result * reference;
    outward_ += reference < 0 ? -error : error;
    reference_size_ += std::abs(reference);
    if (std::abs(error) > max_abs_) {
      max_abs_ = std::abs(error);
      worst_place_ = place;
    }
  }

  /// Adds elements that come after these.
  void add(const ErrorSums& later) {
    error_square_ += later.error_square_;
    reference_square_ += later.reference_square_;
    result_square_ += later.result_square_;
    product_ += later.product_;
    outward_ += later.outward_;
    reference_size_ += later.reference_size_;
    if (later.max_abs_ > max_abs_) {
      max_abs_ = later.max_abs_;
      worst_place_ = later.worst_place_;
    }
    finite_ += later.finite_;
    non_finite_result_ += later.non_finite_result_;
    non_finite_reference_ += later.non_finite_reference_;
  }

  /// sqrt(sum (y - ref)^2 / sum ref^2). With a zero reference 0 if the result is zero too, infinite
  /// if not.
  double relative_rms() const {
    if (reference_square_ > 0) return std::sqrt(error_square_ / reference_square_);
    return error_square_ > 0 ? std::numeric_limits<double>::infinity() : 0;
  }
  /// y . ref / (|y| |ref|); 1 if both are zero, 0 if one is.
  double cosine() const {
    if (reference_square_ > 0 && result_square_ > 0)
      return product_ / (std::sqrt(reference_square_) * std::sqrt(result_square_));
    return reference_square_ > 0 || result_square_ > 0 ? 0 : 1;
  }
  /// 1 - 2 y . ref / (|y|^2 + |ref|^2), as the public kernels' tests define it; 0 if both are zero.
  double calc_diff() const {
    const double squares = reference_square_ + result_square_;
    return squares > 0 ? 1 - 2 * product_ / squares : 0;
  }
  /// sum of errors away from zero / sum |ref|: below 0 where the result is pulled toward zero.
  double bias() const { return reference_size_ > 0 ? outward_ / reference_size_ : 0; }
  double max_abs() const { return max_abs_; }
  /// The first place of max_abs.
  uint64_t worst_place() const { return worst_place_; }
  /// Elements that are finite on both sides.
  uint64_t finite() const { return finite_; }
  uint64_t non_finite_result() const { return non_finite_result_; }
  uint64_t non_finite_reference() const { return non_finite_reference_; }

 private:
  double error_square_ = 0;
  double reference_square_ = 0;
  double result_square_ = 0;
  double product_ = 0;
  double outward_ = 0;
  double reference_size_ = 0;
  double max_abs_ = 0;
  uint64_t worst_place_ = 0;
  uint64_t finite_ = 0;
  uint64_t non_finite_result_ = 0;
  uint64_t non_finite_reference_ = 0;
};

}  // namespace moetwin
