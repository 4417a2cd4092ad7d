import Foundation

/// The content of a file as bytes.
enum FileBytes {
    static func read(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }

    static func write(_ bytes: [UInt8], to path: String) throws {
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
        try handle.write(contentsOf: Data(bytes))
        try handle.close()
    }

    /// Returns the offset of `part`.
    static func find(_ part: [UInt8], in whole: [UInt8]) -> Int? {
        Data(whole).range(of: Data(part))?.lowerBound
    }
}
