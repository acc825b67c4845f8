"""Making a pyramid: from scenarios and conversations to a release."""
