/// The files that an opening has created. If it fails before it has changed the store, they are removed.
struct CreatedFiles {
    /// The bytes of a new store; nil: it existed.
    private let image: [UInt8]?
    /// The log and its side record were made while the lock was held.
    private let isLogNew: Bool

    init(image: [UInt8]?, isLogNew: Bool) { (self.image, self.isLogNew) = (image, isLogNew) }

    /// Removes them. The lock is held, so that nobody else has opened the store.
    func remove(_ lock: StoreLock) {
        if isLogNew {
            _ = Posix.remove(StorePath.log(of: lock.path))
            _ = Posix.remove(StorePath.tail(of: lock.path))
        }
        guard let image else { return }
        do throws(QueueError) {
            // Another process may have used the store before the lock was acquired.
            guard try !StorePath.hasLogOrRecord(lock.path),
                try Posix.read(lock.descriptor, at: 0, count: image.count + 1, lock.path) == image
            else { return }
        } catch {
            return Log.warning("\(lock.path) is left: \(error.detail)")
        }
        _ = Posix.remove(lock.path)
    }
}
