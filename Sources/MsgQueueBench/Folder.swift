import Glibc

/// A temporary directory for one sample.
struct Folder {
    let path: String

    init(in directory: String) throws {
        var template = Array("\(directory)/msgqueue-bench-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure("\(directory): \(String(cString: strerror(errno)))") }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Removes the directory and its files.
    func remove() {
        guard let start = MemoryLayout<dirent>.offset(of: \.d_name), let entries = opendir(path) else { return }
        while let entry = readdir(entries) {
            let name = String(cString: (UnsafeRawPointer(entry) + start).assumingMemoryBound(to: CChar.self))
            if name != ".", name != ".." { unlink("\(path)/\(name)") }
        }
        closedir(entries)
        rmdir(path)
    }
}
