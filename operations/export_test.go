package operations

// DerivedID is derivedID.
var DerivedID = derivedID
