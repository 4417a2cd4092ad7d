import Testing

@testable import MsgQueue

/// Returns the code of the `QueueError` that `body` throws; nil: it throws none.
func refusal(_ body: () throws -> Void) -> QueueError.Code? {
    do {
        try body()
        return nil
    } catch let error as QueueError {
        return error.code
    } catch {
        Issue.record("not a QueueError: \(error)")
        return nil
    }
}

/// Returns the same for an async call.
func refusal(_ body: () async throws -> Void) async -> QueueError.Code? {
    do {
        try await body()
        return nil
    } catch let error as QueueError {
        return error.code
    } catch {
        Issue.record("not a QueueError: \(error)")
        return nil
    }
}
