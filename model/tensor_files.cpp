#include "model/tensor_files.h"

#include <algorithm>
#include <filesystem>

#include "common/check.h"
#include "model/json_reader.h"
#include "model/mapped_file.h"
#include "model/npy.h"

namespace moetwin {
namespace {

namespace fs = std::filesystem;

std::string label(const std::string& path, std::string_view name) {
  return path + ": tensor \"" + one_line(name, 60) + "\"";
}

/// Files of a directory that end in .npy, in order of their names.
std::vector<fs::path> npy_files(const std::string& directory) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".npy") paths.push_back(it->path());
  if (error) throw InputError(one_line(directory) + ": cannot be read");
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

TensorFiles::TensorFiles(const std::string& path) : path_(one_line(path)) {
  std::error_code unreadable;
  if (!fs::is_directory(path, unreadable)) {
    files_.push_back(MappedFile::open(path));
    tensors_ = parse_safetensors(files_.back()->bytes(), path_);
    return;
  }
  for (const fs::path& file : npy_files(path)) {
    files_.push_back(MappedFile::open(file.string()));
    tensors_.emplace(file.stem().string(),
                     parse_npy_tensor(files_.back()->bytes(), one_line(file.string())));
  }
}

const TensorView& TensorFiles::tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw InputError(path_ + ": has no tensor \"" + one_line(name, 60) + "\"");
  return found->second;
}

const TensorView& TensorFiles::tensor(std::string_view name, std::span<const Dtype> dtypes,
                                      const std::vector<uint64_t>& shape) const {
  const TensorView& found = tensor(name);
  if (std::find(dtypes.begin(), dtypes.end(), found.dtype) == dtypes.end()) {
    std::string wanted;
    for (const Dtype dtype : dtypes)
      wanted += (wanted.empty() ? "" : " or ") + std::string(dtype_name(dtype));
    throw InputError(label(path_, name) + ": dtype " + one_line(found.dtype_text, 20) + " is not " +
                     wanted);
  }
  if (found.shape != shape) {
    throw InputError(label(path_, name) + ": shape " + shape_text(found.shape) + " is not " +
                     shape_text(shape));
  }
  return found;
}

}  // namespace moetwin
