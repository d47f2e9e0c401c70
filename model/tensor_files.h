// Named tensors of files: one .safetensors file, or a directory in which each NAME.npy is the
// tensor NAME. Read through memory maps; the formats are in safetensors.h and npy.h. It knows
// nothing of what the tensors mean.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/safetensors.h"

namespace moetwin {

class MappedFile;

/// Open files. Copies share the memory maps.
class TensorFiles {
 public:
  /// Throws InputError if a file cannot be opened, and as parse_safetensors and parse_npy_tensor.
  explicit TensorFiles(const std::string& path);

  const std::string& path() const { return path_; }
  bool has(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  /// Throws InputError naming the path if there is no such tensor.
  const TensorView& tensor(std::string_view name) const;
  /// As tensor(), and throws InputError unless the type is one of `dtypes` and the shape `shape`.
  const TensorView& tensor(std::string_view name, std::span<const Dtype> dtypes,
                           const std::vector<uint64_t>& shape) const;
  const TensorMap& tensors() const { return tensors_; }

 private:
  std::string path_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  TensorMap tensors_;
};

}  // namespace moetwin
