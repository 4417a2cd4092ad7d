/// The timeout of a request that a transport makes within an attempt.
enum RequestTimeout {
    /// Returns the timeout in milliseconds: the attempt's timeout minus a tenth of it, but at most one second less.
    static func within(_ attempt: Int64) -> Int64 { max(1, attempt - min(max(attempt / 10, 1), 1_000)) }
}
