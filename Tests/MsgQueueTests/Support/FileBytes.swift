import Foundation

/// The content of a file as bytes.
enum FileBytes {
    static func read(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }

    /// Into an existing file, or a new one.
    static func write(_ bytes: [UInt8], to path: String) throws {
        if access(path, F_OK) != 0 { close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)) }
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
        try handle.write(contentsOf: Data(bytes))
        try handle.close()
    }

    /// Returns the offset of `part`.
    static func find(_ part: [UInt8], in whole: [UInt8]) -> Int? {
        Data(whole).range(of: Data(part))?.lowerBound
    }
}
