#include "common/formats/safetensors.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "common/formats/byte_cursor.h"
#include "common/formats/json_file.h"
#include "common/formats/safetensors_header.h"

namespace tandem::formats {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own cap
constexpr std::size_t kMaxShards = 4096;

struct Parts {
  std::string_view header;
  std::span<const std::byte> buffer;
};

StatusOr<Parts> Split(const std::string& file, std::span<const std::byte> bytes) {
  ByteCursor cursor(bytes);
  auto length = cursor.Read<std::uint64_t>();
  if (!length) {
    return InvalidArgument(
        "{}: has {} bytes, fewer than a header length: truncated; download it again", file,
        bytes.size());
  }
  if (*length > kMaxHeaderBytes) {
    return InvalidArgument(
        "{}: claims a header of {} bytes, at most {} are allowed: not a safetensors "
        "file, or a damaged one",
        file, *length, kMaxHeaderBytes);
  }
  auto header = cursor.Take(*length);
  if (!header) {
    return InvalidArgument(
        "{}: claims a header of {} bytes, {} follow: truncated; download it again", file, *length,
        cursor.remaining());
  }
  return Parts{{reinterpret_cast<const char*>(header->data()), header->size()},
               bytes.subspan(cursor.position())};
}

// The buffer must be covered exactly: no holes, no overlap, nothing after the last tensor.
Status CheckCover(const std::string& file, std::uint64_t buffer_bytes,
                  const std::vector<SafetensorsEntry>& entries) {
  std::vector<const SafetensorsEntry*> sorted;
  sorted.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t covered = 0;
  for (const SafetensorsEntry* entry : sorted) {
    if (entry->begin != covered) {
      return InvalidArgument(
          "{}: tensor {} begins at {}, the one before ends at {}: {}; the file is "
          "damaged",
          file, Quoted(entry->name), entry->begin, covered,
          entry->begin < covered ? "they overlap" : "a hole");
    }
    covered = entry->end;
  }
  if (covered != buffer_bytes) {
    return InvalidArgument(
        "{}: the tensors take {} bytes, the file holds {}: {}; download it again", file, covered,
        buffer_bytes, covered > buffer_bytes ? "truncated" : "bytes follow the last tensor");
  }
  return OkStatus();
}

// Shards live beside the index: a name with a path in it could reach any file.
bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.size() <= 255 &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

// Each shard's tensors, as the index tells.
StatusOr<std::map<std::string, std::vector<std::string>>> ReadIndex(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(boost::json::value json, ReadJsonFile(path));
  const boost::json::object* top = json.if_object();
  const boost::json::value* map = top == nullptr ? nullptr : top->if_contains("weight_map");
  if (map == nullptr || !map->is_object()) {
    return InvalidArgument("{}: has no object \"weight_map\"; not an index of shards", path);
  }
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [key, value] : map->get_object()) {
    std::string_view tensor(key.data(), key.size());
    const boost::json::string* text = value.if_string();
    std::string_view shard = text == nullptr ? std::string_view() : std::string_view(*text);
    if (!IsPlainFileName(shard)) {
      return InvalidArgument(
          "{}: tensor {} is said to lie in {}, not a plain file name; the index is "
          "damaged",
          path, Quoted(tensor), Quoted(shard));
    }
    shards[std::string(shard)].emplace_back(tensor);
    if (shards.size() > kMaxShards) {
      return InvalidArgument("{}: names more than {} shards; the index is damaged", path,
                             kMaxShards);
    }
  }
  if (shards.empty()) return InvalidArgument("{}: names no tensors; the index is damaged", path);
  return shards;
}

}  // namespace

StatusOr<SafetensorsModel> SafetensorsModel::Open(const std::string& path) {
  SafetensorsModel model;
  model.path_ = path;
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    TANDEM_RETURN_IF_ERROR(model.AddFile(path));
    return model;
  }
  std::string single = path + "/model.safetensors";
  std::string index = path + "/model.safetensors.index.json";
  if (std::filesystem::exists(single, error)) {
    TANDEM_RETURN_IF_ERROR(model.AddFile(single));
  } else if (std::filesystem::exists(index, error)) {
    TANDEM_RETURN_IF_ERROR(model.AddShards(path, index));
  } else {
    return NotFound(
        "{}: holds neither model.safetensors nor model.safetensors.index.json; check the "
        "path, or fetch the weights",
        path);
  }
  return model;
}

StatusOr<SafetensorsModel> SafetensorsModel::FromBytes(std::string name,
                                                       std::span<const std::byte> bytes) {
  SafetensorsModel model;
  model.path_ = std::move(name);
  TANDEM_RETURN_IF_ERROR(model.AddBytes(model.path_, bytes));
  return model;
}

Status SafetensorsModel::AddFile(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  TANDEM_RETURN_IF_ERROR(AddBytes(path, file.bytes()));
  files_.push_back(std::move(file));
  return OkStatus();
}

Status SafetensorsModel::AddShards(const std::string& folder, const std::string& index_path) {
  TANDEM_ASSIGN_OR_RETURN(auto shards, ReadIndex(index_path));
  for (const auto& [shard, tensors] : shards) {
    std::size_t before = tensors_.size();
    TANDEM_RETURN_IF_ERROR(AddFile(folder + "/" + shard));
    for (const std::string& tensor : tensors) {
      auto it = index_.find(tensor);
      if (it == index_.end() || it->second < before) {
        return InvalidArgument(
            "{}: places tensor {} in {}, which does not hold it; index and shards "
            "belong to different models",
            index_path, Quoted(tensor), shard);
      }
    }
  }
  return OkStatus();
}

Status SafetensorsModel::AddBytes(const std::string& name, std::span<const std::byte> bytes) {
  TANDEM_ASSIGN_OR_RETURN(Parts parts, Split(name, bytes));
  TANDEM_ASSIGN_OR_RETURN(auto entries, ParseSafetensorsHeader(name, parts.header));
  TANDEM_RETURN_IF_ERROR(CheckCover(name, parts.buffer.size(), entries));
  for (SafetensorsEntry& entry : entries) {
    std::string_view key = names_.emplace_back(std::move(entry.name));
    if (!index_.emplace(key, tensors_.size()).second) {
      return InvalidArgument("{}: tensor {} lies in another shard too; remove one of them", name,
                             Quoted(key));
    }
    tensors_.push_back({key, entry.dtype, std::move(entry.shape),
                        parts.buffer.subspan(entry.begin, entry.end - entry.begin)});
  }
  return OkStatus();
}

const TensorView* SafetensorsModel::Find(std::string_view name) const {
  auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

StatusOr<std::vector<FileStamp>> SafetensorsModel::Stamps() const {
  std::vector<FileStamp> stamps;
  for (const MappedFile& file : files_) {
    TANDEM_ASSIGN_OR_RETURN(stamps.emplace_back(), file.Stamp());
  }
  return stamps;
}

}  // namespace tandem::formats
