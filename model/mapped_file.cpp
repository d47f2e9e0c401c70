#include "model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/check.h"

namespace moetwin {
namespace {

/// Closes a descriptor when it goes out of scope; a map outlives it.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

std::string one_line(std::string_view text, size_t limit) {
  std::string shown(text.substr(0, limit));
  for (char& c : shown) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  if (text.size() > limit) shown += "...";
  return shown;
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path,
                                                   const std::string& what) {
  const std::string subject = (what.empty() ? "" : what + ": ") + one_line(path);
  // Without O_NONBLOCK a FIFO would block here, before it can be refused.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    throw InputError(subject + ": cannot be opened: " + std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw InputError(subject + ": cannot be read: " + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) throw InputError(subject + ": is not a regular file");
  const size_t size = static_cast<size_t>(status.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile({}));
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (map == MAP_FAILED) {
    throw InputError(subject + ": cannot be mapped: " + std::strerror(errno));
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile({static_cast<const uint8_t*>(map), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

}  // namespace moetwin
