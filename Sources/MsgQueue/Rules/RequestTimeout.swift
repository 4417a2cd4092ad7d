/// How long a request inside an attempt may take.
enum RequestTimeout {
    /// Milliseconds: less than the attempt's by a tenth of it, and at most by one second.
    static func within(_ attempt: Int64) -> Int64 { max(1, attempt - min(max(attempt / 10, 1), 1_000)) }
}
