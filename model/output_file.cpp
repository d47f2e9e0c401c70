#include "model/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "common/check.h"
#include "model/mapped_file.h"

namespace moetwin {
namespace {

namespace fs = std::filesystem;

/// Where a write to `path` ends up: behind symbolic links.
std::string behind_links(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target.string();
}

/// The permissions of the file that is replaced, or those a new file gets.
mode_t permissions(const std::string& target) {
  struct stat status {};
  if (::stat(target.c_str(), &status) == 0) return status.st_mode & 07777;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

}  // namespace

OutputFile::OutputFile(const std::string& path, std::string_view what)
    : subject_((what.empty() ? "" : std::string(what) + ": ") + one_line(path)),
      target_(behind_links(path)) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    open_in_place(path);
  else
    open_beside();
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (!temporary_.empty()) std::remove(temporary_.c_str());
}

void OutputFile::open_in_place(const std::string& path) {
  // Without O_NONBLOCK a pipe that nobody reads would block here.
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail();
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  file_ = ::fdopen(fd, "wb");
  if (file_ == nullptr) {
    ::close(fd);
    fail();
  }
}

void OutputFile::open_beside() {
  temporary_ = target_ + ".XXXXXX";
  const int fd = ::mkstemp(temporary_.data());
  if (fd < 0) fail();
  ::fchmod(fd, permissions(target_));
  file_ = ::fdopen(fd, "wb");
  if (file_ == nullptr) {
    ::close(fd);
    std::remove(temporary_.c_str());
    fail();
  }
}

void OutputFile::write(std::span<const uint8_t> bytes) {
  if (!bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail();
}

void OutputFile::finish() {
  if (std::fflush(file_) != 0) fail();
  if (!temporary_.empty() && std::rename(temporary_.c_str(), target_.c_str()) != 0) fail();
  temporary_.clear();
  std::FILE* const file = file_;
  file_ = nullptr;
  if (std::fclose(file) != 0) fail();
}

void OutputFile::fail() const {
  throw InputError(subject_ + ": cannot be written: " + std::strerror(errno));
}

void write_file(const std::string& path, std::string_view text, std::string_view what) {
  OutputFile file(path, what);
  file.write(text);
  file.finish();
}

}  // namespace moetwin
