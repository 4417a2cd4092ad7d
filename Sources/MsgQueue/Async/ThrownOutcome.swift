extension Outcome {
    /// Returns the outcome of an attempt, or of a batch of several messages, whose transport threw an error.
    static func thrown(_ error: any Error, messages: Int = 1) -> Outcome {
        let text = "the transport threw \(error)"
        return error is EncodingError && messages == 1 ? .reject(.local, text: text) : .retry(.unknown, text: text)
    }

    /// Returns the outcome that `transport` returns, or that of the error that it throws.
    static func catching(_ transport: () async throws -> Outcome) async -> Outcome {
        do { return try await transport() } catch { return .thrown(error) }
    }
}
